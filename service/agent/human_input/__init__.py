"""What people are asked, and how their answers are read and delivered."""
