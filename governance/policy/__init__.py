"""May it happen: rules, and the decision they come to. Pure."""
