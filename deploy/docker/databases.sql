-- A database for each service that has a schema.
CREATE DATABASE ratchet_trainer;
CREATE DATABASE ratchet_eval;
CREATE DATABASE ratchet_registry;
CREATE DATABASE ratchet_gateway;
CREATE DATABASE ratchet_sandbox;
