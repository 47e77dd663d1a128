// PostgreSQL example with a processed_events table
async function handleWebhookWithDB(req, res) {
  const eventId = req.body.id;
  const eventType = req.body.type;

  try {
    // Use a transaction to check and process atomically
    await db.transaction(async (tx) => {
      // Try to insert the event record
      // ON CONFLICT DO NOTHING prevents duplicate inserts
      const result = await tx.query(
        `INSERT INTO processed_events (event_id, event_type, processed_at)
         VALUES ($1, $2, NOW())
         ON CONFLICT (event_id) DO NOTHING
         RETURNING event_id`,
        [eventId, eventType]
      );

      if (result.rows.length === 0) {
        // Event already exists — duplicate
        console.log(`Duplicate webhook: ${eventId}`);
        return;
      }

      // Event is new — process it within the same transaction
      await processEventInTransaction(tx, req.body);
    });

    res.status(200).json({ received: true });
  } catch (error) {
    console.error('Webhook processing error:', error);
    res.status(500).json({ error: 'Processing failed' });
  }
}
