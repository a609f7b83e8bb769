"""Policies for use elsewhere: a folder with the policy, what must be known of it, and an example that plays it without
this project (`ga3c export`); a model card (`ga3c card`); and the Hugging Face Hub (`ga3c push`)."""
