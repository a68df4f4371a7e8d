// A DynamoDB server in memory, on a free port of this machine, which it prints.
const server = require("dynalite")({ createTableMs: 0 })
server.listen(0, "127.0.0.1", () => console.log("Running on http://127.0.0.1:%d", server.address().port))
