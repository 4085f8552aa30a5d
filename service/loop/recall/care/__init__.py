"""What a person has said of their limits: their health, their children, their duties, and what they
must not; told by meaning, and put beside what they say when it matters there."""
