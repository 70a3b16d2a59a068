-- Held for a change that is made beside this one; the merge puts the real file in its place.
select;
