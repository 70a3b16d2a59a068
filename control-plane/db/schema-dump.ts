import { connect, type Sql } from './client.ts';

/**
 * Writes the schema of a database as text that is the same on PostgreSQL 15 to 18 and independent of role names'
 * order, object ids and the order of creation, so that it can be diffed. Owner's rights, which every object has, are
 * left out; so are the objects that PostgreSQL or a parent partition makes by itself.
 */
export async function dumpSchema(url: string): Promise<string> {
  // An empty search path makes the catalog functions write qualified names.
  const sql = connect(url, { max: 1, applicationName: 'mandate schema dump', searchPath: 'pg_catalog' });
  try {
    const sections: string[] = [];
    for (const section of SECTIONS) {
      const rows = await section(sql);
      sections.push(...rows.map((row) => row.line.trim()));
    }
    return `-- Generated from the migrations; do not edit.\n\n${sections.join('\n\n')}\n`;
  } finally {
    await sql.end();
  }
}

type Section = (sql: Sql) => PromiseLike<readonly { line: string }[]>;

/** One query for each kind of object; each orders its lines by name in the C collation. */
const SECTIONS: readonly Section[] = [
  (sql) => sql`
    select 'type ' || format_type(t.oid, null) || case t.typtype
        when 'e' then ' enum (' || (select string_agg(quote_literal(enumlabel), ', ' order by enumsortorder)
          from pg_enum where enumtypid = t.oid) || ')'
        else ' domain over ' || format_type(t.typbasetype, t.typtypmod)
          || coalesce((select string_agg(' ' || pg_get_constraintdef(c.oid), '' order by c.conname collate "C")
            from pg_constraint c where c.contypid = t.oid and c.contype <> 'n'), '')
      end || ';' as line
    from pg_type t join pg_namespace n on n.oid = t.typnamespace
    where t.typtype in ('e', 'd') and n.nspname !~ '^(pg_|information_schema)'
    order by (n.nspname || '.' || t.typname) collate "C"`,
  (sql) => sql`
    select 'sequence ' || c.oid::regclass || ' as ' || format_type(s.seqtypid, null) || ';' as line
    from pg_sequence s join pg_class c on c.oid = s.seqrelid join pg_namespace n on n.oid = c.relnamespace
    where not exists (select from pg_depend d where d.objid = c.oid and d.deptype in ('a', 'i'))
      and n.nspname !~ '^(pg_|information_schema)'
    order by (n.nspname || '.' || c.relname) collate "C"`,
  (sql) => sql`
    select pg_get_functiondef(p.oid) || ';' as line
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname !~ '^(pg_|information_schema)' and p.prokind in ('f', 'p')
      and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
    order by (n.nspname || '.' || p.proname || '(' || pg_get_function_identity_arguments(p.oid)) collate "C"`,
  tables,
  (sql) => sql`
    select 'view ' || c.oid::regclass || ' as ' || pg_get_viewdef(c.oid) as line
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('v', 'm') and n.nspname !~ '^(pg_|information_schema)'
    order by (n.nspname || '.' || c.relname) collate "C"`,
  (sql) => sql`
    select pg_get_indexdef(i.indexrelid) || ';' as line
    from pg_index i join pg_class c on c.oid = i.indexrelid join pg_namespace n on n.oid = c.relnamespace
    where n.nspname !~ '^(pg_|information_schema)' and not c.relispartition
      and not exists (select from pg_constraint k where k.conindid = i.indexrelid and k.contype in ('p', 'u', 'x'))
    order by (n.nspname || '.' || c.relname) collate "C"`,
  (sql) => sql`
    select pg_get_triggerdef(t.oid) || ';' || case t.tgenabled when 'O' then ''
      when 'A' then ' -- enabled always' when 'R' then ' -- enabled on replicas' else ' -- disabled' end as line
    from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_namespace n on n.oid = c.relnamespace
    where not t.tgisinternal and t.tgparentid = 0 and n.nspname !~ '^(pg_|information_schema)'
    order by (n.nspname || '.' || c.relname || '.' || t.tgname) collate "C"`,
  (sql) => sql`
    select 'policy ' || quote_ident(p.policyname) || ' on '
      || quote_ident(p.schemaname) || '.' || quote_ident(p.tablename)
      || ' for ' || lower(p.cmd) || ' to ' || array_to_string(p.roles, ', ')
      || coalesce(' using (' || p.qual || ')', '') 
      || coalesce(' with check (' || p.with_check || ')', '') || ';' as line
    from pg_policies p order by (p.schemaname || '.' || p.tablename || '.' || p.policyname) collate "C"`,
  tableGrants,
  functionGrants,
];

/** A table with its columns and constraints; NOT NULL is a column's matter here, whatever the catalog calls it. */
function tables(sql: Sql): PromiseLike<readonly { line: string }[]> {
  return sql`
    select case when c.relpersistence = 'u' then 'create unlogged table ' else 'create table ' end || c.oid::regclass
      || coalesce(' partition of ' || (select h.inhparent::regclass::text from pg_inherits h where h.inhrelid = c.oid
        and c.relispartition) || ' ' || pg_get_expr(c.relpartbound, c.oid), '')
      || case when c.relispartition then '' else E' (\n  ' || (select string_agg(item, E',\n  ' order by part, name)
        from (
          select 1 as part, lpad(a.attnum::text, 5, '0') as name, quote_ident(a.attname) || ' '
            || format_type(a.atttypid, a.atttypmod)
            || case when a.attcollation <> t.typcollation then ' collate ' || (select quote_ident(collname)
              from pg_collation where oid = a.attcollation) else '' end
            || case when a.attidentity = '' then '' when a.attidentity = 'a' then ' generated always as identity'
              else ' generated by default as identity' end
            || case when d.adbin is null then '' when a.attgenerated = 's'
              then ' generated always as (' || pg_get_expr(d.adbin, d.adrelid) || ') stored'
              else ' default ' || pg_get_expr(d.adbin, d.adrelid) end
            || case when a.attnotnull then ' not null' else '' end as item
          from pg_attribute a join pg_type t on t.oid = a.atttypid
          left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
          where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
          union all
          select 2, k.contype::text || k.conname collate "C", 'constraint ' || quote_ident(k.conname) || ' '
            || pg_get_constraintdef(k.oid)
          from pg_constraint k where k.conrelid = c.oid and k.contype in ('p', 'u', 'x', 'c', 'f') and k.conparentid = 0
        ) items) || E'\n)' end
      || coalesce(' partition by ' || pg_get_partkeydef(c.oid), '')
      || coalesce(' with (' || array_to_string(c.reloptions, ', ') || ')', '')
      || case when c.relrowsecurity then ' -- row level security' || case when c.relforcerowsecurity
        then ', forced' else '' end else '' end || ';' as line
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p') and n.nspname !~ '^(pg_|information_schema)'
    order by (n.nspname || '.' || c.relname) collate "C"`;
}

/** Rights on tables, sequences and columns of everybody but the owner. */
function tableGrants(sql: Sql): PromiseLike<readonly { line: string }[]> {
  return sql`
    select 'grant ' || lower(string_agg(g.privilege_type, ', ' order by g.privilege_type)) || ' on ' || g.object
      || ' to ' || g.grantee || ';' as line
    from (
      select c.oid::regclass::text as object, a.privilege_type,
        case when a.grantee = 0 then 'public' else a.grantee::regrole::text end as grantee
      from pg_class c join pg_namespace n on n.oid = c.relnamespace, aclexplode(c.relacl) a
      where a.grantee <> c.relowner and n.nspname !~ '^(pg_|information_schema)'
      union all
      select c.oid::regclass::text || ' (' || quote_ident(t.attname) || ')', a.privilege_type,
        case when a.grantee = 0 then 'public' else a.grantee::regrole::text end
      from pg_attribute t join pg_class c on c.oid = t.attrelid join pg_namespace n on n.oid = c.relnamespace,
        aclexplode(t.attacl) a
      where a.grantee <> c.relowner and n.nspname !~ '^(pg_|information_schema)'
    ) g
    group by g.object, g.grantee order by (g.object || ' ' || g.grantee) collate "C"`;
}

/** Functions that not everybody may call, with those who may. */
function functionGrants(sql: Sql): PromiseLike<readonly { line: string }[]> {
  return sql`
    select 'grant execute only on function ' || p.oid::regprocedure || ' to ' || coalesce((
        select string_agg(case when a.grantee = 0 then 'public' else a.grantee::regrole::text end, ', '
          order by case when a.grantee = 0 then 'public' else a.grantee::regrole::text end collate "C")
        from aclexplode(p.proacl) a where a.grantee <> p.proowner), 'nobody') || ';' as line
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where p.proacl is not null and n.nspname !~ '^(pg_|information_schema)'
    order by p.oid::regprocedure::text collate "C"`;
}
