"""Messages to run loops that wait for a person: do they get where they belong, and an answer?"""
