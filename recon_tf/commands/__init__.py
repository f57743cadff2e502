"""What `recon-tf NAME` and scripts/NAME.py run: one file per command, each with a `main()`."""
