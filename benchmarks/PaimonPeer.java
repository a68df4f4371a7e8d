import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
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
 * Prints as JSON the seconds of each call, twice for a dry run, and how many files or snapshots went.
 */
public final class PaimonPeer {
    private static final long WEEK_MILLIS = 7L * 86_400_000;

    public static void main(String[] words) throws Exception {
        Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(new Path(words[0])));
        FileStoreTable table = (FileStoreTable) catalog.getTable(Identifier.create("db", "t"));
        List<Double> seconds = new ArrayList<>();
        long count = 0;
        for (int round = 0; round < (words[1].equals("dry") ? 2 : 1); round++) {
            long begin = System.nanoTime();
            count = words[1].equals("expire") ? expire(table) : clean(table, words[1].equals("dry"));
            seconds.add((System.nanoTime() - begin) / 1e9);
        }
        System.out.println("{\"calls\": " + seconds + ", \"count\": " + count + "}");
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
