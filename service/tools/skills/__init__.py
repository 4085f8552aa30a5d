"""The script repository: skills in the AgentSkills form, and single scripts; with versions."""
