"""What people look at: the live terminal view, plain lines, play and video, plots."""
