-- Renames a reason that rentals and volumes have stored, so that old and new ones read the same. Older servers, which still
-- run during an upgrade, may write the former reason; nothing depends on it.
update rental set status_reason = 'rejected_by_provider' where status_reason = 'refused_by_engine';
update volume set state_reason = 'rejected_by_provider' where state_reason = 'refused_by_engine';
