/** The tables of HTTP ports (schema/0026_ports.sql) as types; see store/platform/tables.ts. */
import type { At, AtOrNull } from '../platform/column.ts'

export interface PortTables {
  port_token: {
    id: string
    rental_id: number
    port: number
    name: string
    token_hash: Buffer
    last4: string
    person_id: string
    created_at: At
    expires_at: AtOrNull
  }
  port_code: { code_hash: Buffer; rental_id: number; port: number; api_key_id: string; expires_at: At }
  port_health: { rental_id: number; port: number; healthy: boolean; checked_at: At }
}
