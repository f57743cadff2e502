"""Methods that do not share RECON's backbone, behind the same interface as its agent."""
