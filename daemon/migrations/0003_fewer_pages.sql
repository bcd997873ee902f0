-- What an iteration changed beside its events, it changed twice or for nobody. These go:
-- two indexes that every call and every answer entered and left again, and the third copy of each
-- call's arguments. Which item streams stands in the session's row, which changes anyway.
ALTER TABLE sessions ADD COLUMN booked INTEGER; -- the place of the last item that was booked
UPDATE sessions SET booked = (
    SELECT max(item_index) FROM items
    WHERE items.session = sessions.id AND items.status = 'streaming'
);
DROP INDEX items_streaming;
DROP INDEX calls_running;
ALTER TABLE calls DROP COLUMN arguments;
