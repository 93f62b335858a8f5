"""Pure planning: functions from facts to frozen plans and rows, without IO and without a clock."""
