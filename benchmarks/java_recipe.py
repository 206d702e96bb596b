"""The re:Invent slide's recipe in Java, run inside a warm JVM: ancestorsBetween, addedDataFiles, appendFile, commit.

Written as its users would write it, and compiled by the Janino that Spark ships, so that no call crosses from Python to Java
but the one that starts it.
"""

from __future__ import annotations

import time
from typing import Any

SOURCE = """
import java.util.Iterator;
import java.util.ArrayList;
import java.util.List;
import org.apache.iceberg.AppendFiles;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.util.SnapshotUtil;

public class Recipe {
  public static long run(Catalog catalog, String source, String name, long from, long to) {
    Table table = catalog.loadTable(TableIdentifier.parse(source));
    List appends = new ArrayList();
    Iterator chain = SnapshotUtil.ancestorsBetween(table, to, Long.valueOf(from)).iterator();
    while (chain.hasNext()) {
      Snapshot snapshot = (Snapshot) chain.next();
      if ("append".equals(snapshot.operation())) {
        appends.add(snapshot);
      }
    }
    Table changes = catalog.createTable(TableIdentifier.parse(name), table.schema(), table.spec());
    AppendFiles append = changes.newAppend();
    long files = 0;
    for (int i = 0; i < appends.size(); i++) {
      Iterator added = ((Snapshot) appends.get(i)).addedDataFiles(table.io()).iterator();
      while (added.hasNext()) {
        append.appendFile((DataFile) added.next());
        files++;
      }
    }
    append.commit();
    return files;
  }
}
"""


class JavaRecipe:
    """The recipe, compiled once. ``spark`` is a classic session whose driver has Iceberg on its class path."""

    def __init__(self, spark: Any, catalog: str) -> None:
        jvm = spark._jvm
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.cook(SOURCE)
        self._class = compiler.getClassLoader().loadClass("Recipe")
        self._catalog = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergCatalog(spark._jsparkSession, catalog)
        self._gateway = spark.sparkContext._gateway
        self._methods = {method.getName(): method for method in self._class.getMethods()}

    def run(self, source: str, name: str, since: int, until: int) -> tuple[int, float]:
        """How many files it listed, and how long it took."""
        java_long = self._gateway.jvm.java.lang.Long
        arguments = self._gateway.new_array(self._gateway.jvm.java.lang.Object, 5)
        values = (self._catalog, source, name, java_long.valueOf(since), java_long.valueOf(until))
        for position, value in enumerate(values):
            arguments[position] = value
        began = time.perf_counter()
        files = self._methods["run"].invoke(None, arguments)
        return int(files), time.perf_counter() - began
