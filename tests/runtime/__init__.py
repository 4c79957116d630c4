"""Tests of the runtime: the stages of the intent pipeline, each alone, and the orchestrator."""
