-- Codes and passwords that are typed within a live session have a count and a lock of their own: whoever knows an
-- address can lock its sign-in, and must not lock what its owner confirms.

alter table accounts
  add column session_failed_attempts integer not null default 0 check (session_failed_attempts >= 0),
  add column session_locked_until timestamptz;
