"""Conversations of coding agents as their clients have stored them: what was said, run and measured."""
