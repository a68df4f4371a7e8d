import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.rest.RESTCatalog;

/** Clients of the server under test, which the suites of Iceberg use like any other catalog. */
final class Clients {
  /** Properties that the suites expect every catalog to add to its tables and views. */
  private static final Map<String, String> EXPECTED =
      Map.of(
          "table-default.default-key1", "catalog-default-key1",
          "table-default.default-key2", "catalog-default-key2",
          "table-default.override-key3", "catalog-default-key3",
          "table-override.override-key3", "catalog-override-key3",
          "table-override.override-key4", "catalog-override-key4",
          "view-default.key1", "catalog-default-key1",
          "view-default.key2", "catalog-default-key2",
          "view-default.key3", "catalog-default-key3",
          "view-override.key3", "catalog-override-key3",
          "view-override.key4", "catalog-override-key4");

  private Clients() {}

  static RESTCatalog connect(Map<String, String> more) {
    Map<String, String> properties = new HashMap<>(EXPECTED);
    properties.put("uri", System.getProperty("server"));
    properties.put("warehouse", System.getProperty("warehouse"));
    properties.put("io-impl", "org.apache.iceberg.hadoop.HadoopFileIO");
    properties.putAll(more);
    RESTCatalog catalog = new RESTCatalog();
    catalog.setConf(new Configuration());
    catalog.initialize("suite", properties);
    return catalog;
  }

  /** Tests leave what they made; the next one begins with nothing. */
  static void clear(RESTCatalog catalog) {
    for (Namespace namespace : Set.copyOf(catalog.listNamespaces())) {
      clear(catalog, namespace);
    }
  }

  private static void clear(RESTCatalog catalog, Namespace namespace) {
    for (Namespace inner : catalog.listNamespaces(namespace)) {
      clear(catalog, inner);
    }
    for (TableIdentifier table : catalog.listTables(namespace)) {
      catalog.dropTable(table, false);
    }
    for (TableIdentifier view : catalog.listViews(namespace)) {
      catalog.dropView(view);
    }
    catalog.dropNamespace(namespace);
  }
}
