"""What is stored in internal topics, as documents."""
