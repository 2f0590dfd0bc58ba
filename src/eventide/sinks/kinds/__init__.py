"""One file for each kind of sink; what they share lies beside this folder."""
