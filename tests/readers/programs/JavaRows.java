import java.time.LocalDate;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.Snapshot;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.fs.Path;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataTypeRoot;

/**
 * Prints what Java's Paimon reads of tables: the rows of each snapshot and each tag.
 *
 * Runs by itself: {@code JavaRows WAREHOUSE DATABASE.TABLE…}.
 */
public final class JavaRows {
    public static void main(String[] words) throws Exception {
        Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(new Path(words[0])));
        Map<String, Object> found = new LinkedHashMap<>();
        for (int at = 1; at < words.length; at++) {
            String[] name = words[at].split("\\.");
            found.put(words[at], owners((FileStoreTable) catalog.getTable(Identifier.create(name[0], name[1]))));
        }
        System.out.println(new ObjectMapper().writeValueAsString(found));
    }

    private static Map<String, Object> owners(FileStoreTable table) throws Exception {
        Map<String, Object> found = new LinkedHashMap<>();
        for (Snapshot each : table.snapshotManager().safelyGetAllSnapshots()) {
            String id = Long.toString(each.id());
            found.put("snapshot-" + id, rows(table.copy(Map.of("scan.snapshot-id", id))));
        }
        for (String name : table.tagManager().allTagNames()) {
            found.put("tag-" + name, rows(table.copy(Map.of("scan.tag-name", name))));
        }
        return found;
    }

    private static List<Object> rows(FileStoreTable table) throws Exception {
        ReadBuilder builder = table.newReadBuilder();
        List<DataField> fields = builder.readType().getFields();
        List<Object> found = new ArrayList<>();
        try (RecordReader<InternalRow> reader = builder.newRead().createReader(builder.newScan().plan())) {
            reader.forEachRemaining(row -> found.add(row(fields, row)));
        }
        return found;
    }

    private static Map<String, String> row(List<DataField> fields, InternalRow row) {
        Map<String, String> texts = new LinkedHashMap<>();
        for (int at = 0; at < fields.size(); at++) {
            DataField field = fields.get(at);
            Object value = InternalRow.createFieldGetter(field.type(), at).getFieldOrNull(row);
            boolean isDate = value != null && field.type().getTypeRoot() == DataTypeRoot.DATE;
            Object shown = isDate ? LocalDate.ofEpochDay((int) value) : value;
            texts.put(field.name(), shown == null ? "None" : shown.toString());
        }
        return texts;
    }
}
