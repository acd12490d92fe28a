"""Where a log's heads are put out of its operator's reach: a file elsewhere, a time stamp, a witness."""
