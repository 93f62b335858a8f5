"""How a new owner finds where each mirror stands, and what it does about lost state."""
