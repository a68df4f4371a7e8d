import java.time.Duration;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.fs.Path;
import org.apache.paimon.operation.LocalOrphanFilesClean;
import org.apache.paimon.options.ExpireConfig;
import org.apache.paimon.table.FileStoreTable;

/**
 * Paimon's own clean-up in one Java process: {@code PaimonPeer WAREHOUSE dry|real|expire}.
 *
 * Prints as JSON the seconds of the call, and how many files or snapshots went.
 */
public final class PaimonPeer {
    private static final long WEEK_MILLIS = 7L * 86_400_000;

    public static void main(String[] words) throws Exception {
        Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(new Path(words[0])));
        FileStoreTable table = (FileStoreTable) catalog.getTable(Identifier.create("db", "t"));
        long begin = System.nanoTime();
        long count = words[1].equals("expire") ? expire(table) : clean(table, words[1].equals("dry"));
        double seconds = (System.nanoTime() - begin) / 1e9;
        System.out.println("{\"call\": " + seconds + ", \"count\": " + count + "}");
    }

    private static long clean(FileStoreTable table, boolean dry) throws Exception {
        long cut = System.currentTimeMillis() - WEEK_MILLIS;
        return new LocalOrphanFilesClean(table, cut, dry).clean().getDeletedFileCount();
    }

    private static long expire(FileStoreTable table) {
        ExpireConfig one = ExpireConfig.builder()
                .snapshotRetainMin(1)
                .snapshotRetainMax(1)
                .snapshotTimeRetain(Duration.ZERO)
                .snapshotMaxDeletes(Integer.MAX_VALUE)
                .build();
        return table.newExpireSnapshots().config(one).expire();
    }
}
