-- The outbox in MySQL or MariaDB, as ingest would make it.

CREATE TABLE watermill_ledgerfeed (
  `offset`   BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  uuid       VARCHAR(36) NOT NULL,
  payload    LONGTEXT,
  metadata   LONGTEXT,
  acked      BOOLEAN NOT NULL DEFAULT FALSE,
  created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
  KEY acked (acked, `offset`)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;
