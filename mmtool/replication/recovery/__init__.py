"""Recovery: find where each mirror ends after another owner, and handle lost stored state."""
