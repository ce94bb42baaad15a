"""Speed and quality of gangfit, measured through its public interface. See README.md here."""
