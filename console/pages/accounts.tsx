/** Not written yet. */
import { Page } from '../ui/page.tsx'

export function AccountsPage() {
  return <Page title="Accounts">…</Page>
}
