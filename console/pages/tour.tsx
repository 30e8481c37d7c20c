/** Not written yet. */
import { Page } from '../ui/page.tsx'

export function TourPage() {
  return <Page title="Tour">…</Page>
}
