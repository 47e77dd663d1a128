async function handleOrderUpdate(event) {
  const { order_id, version } = event.data;

  // Only process if this version is newer than what we have
  const result = await db.query(
    `UPDATE orders
     SET status = $1, updated_at = NOW(), event_version = $2
     WHERE id = $3 AND (event_version IS NULL OR event_version < $2)
     RETURNING id`,
    [event.data.status, version, order_id]
  );

  if (result.rows.length === 0) {
    console.log(`Skipping stale event for order ${order_id}: version ${version}`);
  }
}
