"""The claims (`claims.yaml`) and their verdicts."""
