// Express example
app.post('/parseo-webhook', async (req, res) => {
const eventId = req.body.id;
if (await db.webhookEvents.exists(eventId)) {
// Already processed — acknowledge without re-processing
return res.sendStatus(200);
}
await db.webhookEvents.insert(eventId);
await processEvent(req.body);
res.sendStatus(200);
});
