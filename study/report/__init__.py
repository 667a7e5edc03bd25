"""From records to tables and figures: everything here runs without torch, a GPU or a network."""
