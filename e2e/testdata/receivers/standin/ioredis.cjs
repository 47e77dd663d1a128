// Stands in for the client of Redis: one process, SET with NX, and DEL.
const kept = new Map();
module.exports = class Redis {
  async set(key, value, ex, seconds, nx) {
    if (ex !== "EX" || nx !== "NX") throw new Error(`SET with ${ex} and ${nx}`);
    if (kept.has(key)) return null;
    kept.set(key, value);
    return "OK";
  }
  async del(key) {
    return kept.delete(key) ? 1 : 0;
  }
};
