-- Outcomes that nobody knows, for people to settle (contract §7).

-- Why an outcome is unknown and since when: what a person looks at before settling it. Only such rows have them.
-- A settled row stays for a while, uncounted, so that an outcome that is told later after all is recognised as such.
alter table reservations
  add column unknown_at timestamptz,
  add column cause text check (length(cause) <= 64),
  add column target_status integer check (target_status between 100 and 599),
  drop constraint reservations_state_check,
  add constraint reservations_state_check
    check (state in ('reserved', 'unknown', 'settled_booked', 'settled_released'));
