/** People and mail, as an operator lists them. */
import { sql } from 'kysely'
import type { Instant } from '../../base/instant.ts'
import type { Role } from '../../contract/account.ts'
import type { Db } from '../platform/database.ts'

export interface ListedPerson {
  readonly id: string
  readonly email: string
  readonly name: string | null
  readonly createdAt: Instant
  readonly provedAt: Instant | null
  readonly disabledAt: Instant | null
  readonly seenAt: Instant | null
  readonly accounts: ReadonlyArray<{
    readonly accountId: string
    readonly accountName: string
    readonly role: Role
    readonly state: 'invited' | 'active'
  }>
}

interface PersonQuery {
  readonly id?: string
  /** The last row of the previous page. People are never deleted. */
  readonly after?: string | undefined
  readonly q?: string | undefined
  readonly limit: number
}

/** The newest come first. */
export async function listPeoplePage(db: Db, { id, after, q, limit }: PersonQuery): Promise<ListedPerson[]> {
  const { rows } = await sql<ListedPerson>`
    select p.id, p.email, p.name, p.created_at as "createdAt", p.email_verified_at as "provedAt",
      p.disabled_at as "disabledAt",
      (select max(s.seen_at) from console_session s where s.person_id = p.id) as "seenAt",
      coalesce((select jsonb_agg(jsonb_build_object('accountId', a.id, 'accountName', a.name, 'role', m.role,
          'state', case when m.accepted_at is null then 'invited' else 'active' end) order by m.created_at, a.id)
        from member m join account a on a.id = m.account_id where m.person_id = p.id), '[]') as accounts
    from person p
    where (${id ?? null}::text is null or p.id = ${id ?? null})
      and (${q ?? null}::text is null or position(lower(${q ?? ''}) in lower(concat_ws(' ', p.email, p.name, p.id))) > 0)
      and (${after ?? null}::text is null
        or (p.created_at, p.id) < (select b.created_at, b.id from person b where b.id = ${after ?? null}))
    order by p.created_at desc, p.id desc limit ${limit}`.execute(db)
  return rows
}

export interface ListedMail {
  readonly id: string
  readonly to: string
  readonly about: string
  readonly state: 'pending' | 'sent' | 'failed' | 'withheld'
  readonly attempts: number
  readonly error: string | null
  readonly createdAt: Instant
  readonly endedAt: Instant | null
}

interface MailQuery {
  /** The last row of the previous page. The first page follows if it was deleted meanwhile. */
  readonly after?: string | undefined
  readonly state?: ListedMail['state'] | undefined
  readonly q?: string | undefined
  readonly limit: number
}

/** The newest come first. */
export async function listMails(db: Db, { after, state, q, limit }: MailQuery): Promise<ListedMail[]> {
  const { rows } = await sql<ListedMail>`
    select m.id, coalesce(m.to_address, p.email) as "to", coalesce(m.template, m.kind) as about, m.state, m.attempts,
      m.last_error as error, m.created_at as "createdAt", m.ended_at as "endedAt"
    from mail m left join person p on p.id = m.person_id
    where (${state ?? null}::text is null or m.state = ${state ?? null})
      and (${q ?? null}::text is null or position(lower(${q ?? ''}) in lower(coalesce(m.to_address, p.email))) > 0)
      and (${after ?? null}::text is null or not exists (select 1 from mail b where b.id = ${after ?? null})
        or (m.created_at, m.id) < (select b.created_at, b.id from mail b where b.id = ${after ?? null}))
    order by m.created_at desc, m.id desc limit ${limit}`.execute(db)
  return rows
}
