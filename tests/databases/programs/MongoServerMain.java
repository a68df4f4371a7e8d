import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.ServerVersion;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;

/** A MongoDB server in memory, on a free port of this machine, which it prints. */
class MongoServerMain {
    public static void main(String[] arguments) {
        MongoServer server = new MongoServer(new MemoryBackend().version(ServerVersion.MONGO_5_0));
        server.bind("127.0.0.1", 0);
        System.out.println("Running on " + server.getConnectionString());
    }
}
