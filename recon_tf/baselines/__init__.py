"""Methods that do not share RECON's backbone, with the interface of its agent."""
