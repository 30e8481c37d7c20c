/** Tables that options of orders refer to: secrets, registry logins and templates. */
import type { TemplateBody } from '../../contract/template.ts'
import type { At, Counted, Json, OrNull } from '../platform/column.ts'

export interface OptionTables {
  secret: { account_id: string; name: string; sealed: string; created_at: At; updated_at: At }
  registry_credential: {
    id: string
    account_id: string
    name: string
    server: string
    username: string
    sealed: string
    created_at: At
  }
  template: {
    id: string
    account_id: OrNull<string>
    name: string
    visibility: 'private' | 'link'
    version: Counted
    created_at: At
    updated_at: At
  }
  template_version: { template_id: string; version: number; body: Json<TemplateBody>; created_at: At }
}
