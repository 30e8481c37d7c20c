/** Not written yet. */
import { Page } from '../ui/page.tsx'

export function RequestsPage() {
  return <Page title="Requests">…</Page>
}
