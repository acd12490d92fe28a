"""What only the whole record shows: the ledger, the policy and the approvals seen together."""
