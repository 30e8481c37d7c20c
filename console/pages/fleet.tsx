/** Not written yet. */
import { Page } from '../ui/page.tsx'

export function FleetPage() {
  return <Page title="Fleet">…</Page>
}
