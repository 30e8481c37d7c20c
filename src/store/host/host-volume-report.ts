/** Saves the volumes in a host's report. A volume that was to be removed and is missing from the report is gone. */
import { sql } from 'kysely'
import type { HostReport } from '../../contract/agent.ts'
import type { Tx } from '../platform/database.ts'

export async function saveVolumeReport(tx: Tx, hostId: string, report: HostReport): Promise<void> {
  await sql`
    delete from host_volume v
    where v.host_id = ${hostId} and v.want = 'gone' and v.generation <= ${report.generation}
      and v.id <> all (${report.volumes}::text[])
      and not exists (select 1 from workload_disk d where d.volume_id = v.id)`.execute(tx.db)
  await sql`
    update host_volume v set present = n.present, made = v.made or n.present, failure = n.failure,
      found_gb = n.found_gb, used_gb = n.used_gb
    from (select x.id, x.id = any (${report.volumes}::text[]) as present, f.message as failure,
            s."sizeGb" as found_gb, s."usedGb" as used_gb
          from host_volume x
          left join jsonb_to_recordset(${JSON.stringify(report.volumeSizes ?? [])}::jsonb)
            as s (id text, "sizeGb" integer, "usedGb" double precision) on s.id = x.id
          left join jsonb_to_recordset(${JSON.stringify(report.volumeFaults ?? [])}::jsonb) as f (id text, message text)
            on f.id = x.id
          where x.host_id = ${hostId}) n
    where v.id = n.id and (v.present, v.made, v.failure, v.found_gb, v.used_gb)
      is distinct from (n.present, v.made or n.present, n.failure, n.found_gb, n.used_gb)`.execute(tx.db)
}
