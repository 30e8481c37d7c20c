-- Renames the reason of `rental.stuck` events, so that old and new ones read the same. Older servers, which still run
-- during an upgrade, may write the former reason; nothing depends on it.
update event set data = data || '{"reason": "teardown_stuck"}'
where type = 'rental.stuck' and data ->> 'reason' = 'engine_does_not_let_go';
