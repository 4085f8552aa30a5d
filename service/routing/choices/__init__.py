"""Which of some options a person's words choose."""
