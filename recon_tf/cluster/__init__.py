"""Many runs at once, on this machine or on a Ray cluster."""
