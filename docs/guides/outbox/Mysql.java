import java.sql.DriverManager;

class Mysql {
  public static void main(String[] args) throws Exception {
    // Text without a library; write it with yours.
    String payload = """
        {"workspace_id":"acme","id":"in_2_paid","type":"invoice.paid",
         "data":{"invoice_id":"in_2","invoice_number":"2026-002","client_id":"cl_2"}}""";
    try (var db = DriverManager.getConnection(System.getenv("SHOP_JDBC"))) {
      db.setAutoCommit(false);
      db.createStatement().execute("UPDATE invoices SET paid_at = now() WHERE id = 2");
      var insert = db.prepareStatement("INSERT INTO watermill_ledgerfeed (uuid, payload) VALUES (UUID(), ?)");
      insert.setString(1, payload);
      insert.execute();
      db.commit();
    }
  }
}
