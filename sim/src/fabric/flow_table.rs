//! The table of flows, as text or in columns.

use super::report::{FlowResult, quoted};
use parquet::basic::{ConvertedType, Encoding, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::record::Field;
use parquet::schema::types::{ColumnPath, Type};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// How the table of flows is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowsFormat {
    /// Lines of text, which say themselves what they are.
    #[default]
    Csv,
    /// Apache Parquet: columns with types. What the text says of itself is its metadata `weir`.
    Parquet,
}

impl FlowsFormat {
    /// Name of the file.
    pub fn file(self) -> &'static str {
        match self {
            Self::Csv => "flows.csv",
            Self::Parquet => "flows.parquet",
        }
    }
}

/// What a column says of a flow.
#[derive(Clone, Copy)]
enum Column {
    Text(fn(&FlowResult) -> &str),
    Count(fn(&FlowResult) -> u64),
    /// It may not be known.
    Maybe(fn(&FlowResult) -> Option<u64>),
}

const COLUMNS: [(&str, Column); 13] = [
    ("id", Column::Count(|f| f.id.into())),
    ("from", Column::Text(|f| &f.from)),
    ("to", Column::Text(|f| &f.to)),
    ("bytes", Column::Maybe(|f| f.bytes)),
    ("start_ns", Column::Maybe(|f| f.start_ns)),
    ("fct_ns", Column::Maybe(|f| f.fct_ns)),
    ("ideal_ns", Column::Maybe(|f| f.ideal_ns)),
    ("delivered_bytes", Column::Count(|f| f.delivered)),
    ("lost_bytes", Column::Count(|f| f.lost)),
    ("packets", Column::Count(|f| f.packets)),
    ("resent", Column::Count(|f| f.resent)),
    ("marked", Column::Maybe(|f| f.marked)),
    ("cnps", Column::Maybe(|f| f.cnps)),
];

/// Where only some flows were played frame by frame.
const LEVEL: (&str, Column) = ("level", Column::Text(|f| f.level.map_or("", |level| level.word())));

/// Rows that are put into columns together.
const ROWS: usize = 1 << 20;

fn columns(flows: &[FlowResult]) -> Vec<(&'static str, Column)> {
    let by_level = flows.iter().any(|f| f.level.is_some());
    COLUMNS.into_iter().chain(by_level.then_some(LEVEL)).collect()
}

/// A line for the names of the columns, and one for each flow.
pub(super) fn csv(flows: &[FlowResult]) -> String {
    let columns = columns(flows);
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let cell = |flow: &FlowResult, column: Column| match column {
        Column::Text(of) => quoted(of(flow)),
        Column::Count(of) => of(flow).to_string(),
        Column::Maybe(of) => of(flow).map_or(String::new(), |n| n.to_string()),
    };
    let line =
        |flow| columns.iter().map(|(_, column)| cell(flow, *column)).collect::<Vec<_>>().join(",") + "\n";
    std::iter::once(names.join(",") + "\n").chain(flows.iter().map(line)).collect()
}

/// A Parquet file that says `about` of itself, and was written by this version of weir.
///
/// # Errors
/// The library refuses: a fault of weir.
pub(super) fn parquet(flows: &[FlowResult], weir: &str, about: &str) -> Result<Vec<u8>, ParquetError> {
    let columns = columns(flows);
    let field = |(name, column): &(&str, Column)| {
        let (physical, logical, converted) = match column {
            Column::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String), ConvertedType::UTF8),
            Column::Count(_) | Column::Maybe(_) => (Physical::INT64, None, ConvertedType::NONE),
        };
        let repetition = match column {
            Column::Maybe(_) => Repetition::OPTIONAL,
            Column::Text(_) | Column::Count(_) => Repetition::REQUIRED,
        };
        let field = Type::primitive_type_builder(name, physical).with_repetition(repetition);
        field.with_logical_type(logical).with_converted_type(converted).build().map(Arc::new)
    };
    let fields = columns.iter().map(field).collect::<Result<Vec<_>, _>>()?;
    let schema = Arc::new(Type::group_type_builder("flows").with_fields(fields).build()?);
    let mut properties = WriterProperties::builder()
        .set_created_by(format!("{CREATOR}{weir}"))
        .set_key_value_metadata(Some(vec![KeyValue::new("weir".into(), about.to_owned())]));
    for (name, _) in columns.iter().filter(|(_, column)| !matches!(column, Column::Text(_))) {
        let path = ColumnPath::from(*name);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties.build()))?;
    for flows in flows.chunks(ROWS) {
        let mut rows = writer.next_row_group()?;
        columns.iter().try_for_each(|(_, column)| put(&mut rows, flows, *column))?;
        rows.close()?;
    }
    writer.into_inner()
}

/// Writes the next column of these rows.
fn put(
    rows: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    flows: &[FlowResult],
    column: Column,
) -> Result<(), ParquetError> {
    // Counts of 64 bits that are never used up.
    let whole = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let Some(mut writer) = rows.next_column()? else { return Ok(()) };
    match column {
        Column::Text(of) => {
            let texts: Vec<ByteArray> = flows.iter().map(|f| ByteArray::from(of(f))).collect();
            writer.typed::<ByteArrayType>().write_batch(&texts, None, None)?;
        }
        Column::Count(of) => {
            let counts: Vec<i64> = flows.iter().map(|f| whole(of(f))).collect();
            writer.typed::<Int64Type>().write_batch(&counts, None, None)?;
        }
        Column::Maybe(of) => {
            let known: Vec<i64> = flows.iter().filter_map(|f| of(f).map(whole)).collect();
            let is_known: Vec<i16> = flows.iter().map(|f| of(f).is_some().into()).collect();
            writer.typed::<Int64Type>().write_batch(&known, Some(&is_known), None)?;
        }
    }
    writer.close()
}

/// How the name of who wrote a file begins, before the version.
const CREATOR: &str = "weir version ";

/// Whether a file is one that [`parquet`] made.
pub(super) fn is_parquet(file: File) -> bool {
    let reader = SerializedFileReader::new(file);
    reader.is_ok_and(|reader| {
        let by = reader.metadata().file_metadata().created_by();
        by.is_some_and(|by| by.starts_with(CREATOR))
    })
}

/// Two columns of counts of such a file, row by row; `None`: it is none, or has no such columns.
pub(crate) fn read(path: &Path, [first, second]: [&str; 2]) -> Option<Vec<[Option<u64>; 2]>> {
    let reader = SerializedFileReader::new(File::open(path).ok()?).ok()?;
    let count = |field: &Field| match field {
        Field::Long(n) => u64::try_from(*n).ok(),
        _ => None,
    };
    let mut found = Vec::new();
    for row in reader.get_row_iter(None).ok()? {
        let row = row.ok()?;
        let column = |name: &str| {
            let (_, field) = row.get_column_iter().find(|(column, _)| *column == name)?;
            Some(count(field))
        };
        found.push([column(first)?, column(second)?]);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use crate::fabric::{FlowsFormat, Report, load, run};
    use parquet::basic::{Repetition, Type};
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    use std::collections::BTreeMap;

    /// Cells of a file, row by row, as text.
    fn cells(bytes: Vec<u8>) -> (Vec<String>, Vec<Vec<String>>) {
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        let schema = reader.metadata().file_metadata().schema_descr_ptr();
        let names = schema.columns().iter().map(|column| column.name().to_owned()).collect();
        let cell = |field: &Field| match field {
            Field::Null => String::new(),
            Field::Long(n) => n.to_string(),
            Field::Str(text) => text.clone(),
            other => panic!("{other:?}"),
        };
        let row = |row: parquet::record::Row| row.get_column_iter().map(|(_, field)| cell(field)).collect();
        (names, reader.get_row_iter(None).unwrap().map(|found| row(found.unwrap())).collect())
    }

    fn play(text: &str) -> Report {
        load("flows.toml", text).and_then(|spec| run(&spec)).unwrap_or_else(|e| panic!("{e}"))
    }

    /// Flows with and without end, some not delivered, some that cannot start, names with a comma; at level `hybrid` those that were
    /// played and those that were not.
    #[test]
    fn columns_have_what_the_lines_have() {
        let custom = "kind = \"custom\"\nhosts = [\"a, b\", \"c\\\"d\", \"e\"]\nswitches = [\"s\"]\nlinks = [{ a = \"a, b\", b = \"s\" }, \
                      { a = \"c\\\"d\", b = \"s\" }, { a = \"e\", b = \"s\" }]";
        let star = "kind = \"star\"\nhosts = 6";
        let some = "[[workload]]\nkind = \"incast\"\nto = \"e\"\nbytes = \"2MB\"\n[[workload]]\nkind = \"flow\"\nfrom = \"e\"\n\
                    to = \"a, b\"\n[[workload]]\nkind = \"flow\"\nfrom = \"e\"\nto = \"a, b\"\nbytes = \"1KB\"\nstart = \"1ms\"\n";
        let many = "[[workload]]\nkind = \"incast\"\nto = \"h0\"\nsenders = 3\nbytes = \"100KB\"\n[[workload]]\nkind = \"flow\"\n\
                    from = \"h4\"\nto = \"h5\"\nbytes = \"3KB\"\n";
        for (level, topology, traffic) in
            [("packet", custom, some), ("hybrid", star, many), ("flow", star, many)]
        {
            let text = format!(
                "name = \"x\"\nstop_time = \"200us\"\nlevel = \"{level}\"\n[topology]\n{topology}\n{traffic}"
            );
            let report = play(&text);
            let tables: BTreeMap<&str, Vec<u8>> =
                report.tables(FlowsFormat::Parquet).unwrap().into_iter().collect();
            assert!(!tables.contains_key("flows.csv"));
            let (names, rows) = cells(tables["flows.parquet"].clone());
            let csv = report.flows_csv();
            let mut lines = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(csv.as_bytes());
            assert_eq!(lines.headers().unwrap().iter().collect::<Vec<_>>(), names, "{level}");
            let lines: Vec<Vec<String>> =
                lines.records().map(|line| line.unwrap().iter().map(Into::into).collect()).collect();
            assert_eq!(rows.len(), report.flows.len());
            assert_eq!(rows, lines, "{level}");
            // Some cells are empty, but for level `flow`, and names are whole.
            assert!(level != "packet" || rows.iter().flatten().any(String::is_empty) && rows[0][1] == "a, b");
            assert_eq!(names.last().is_some_and(|name| name == "level"), level == "hybrid");
        }
    }

    #[test]
    fn a_file_says_what_it_is_of_and_columns_have_types() {
        let report = play(
            "name = \"x\"\nstop_time = \"200us\"\nseed = 7\n[topology]\nkind = \"star\"\nhosts = 2\n[[workload]]\nkind = \"flow\"\n\
             from = \"h0\"\nto = \"h1\"\nbytes = \"1KB\"\n",
        );
        let reader = SerializedFileReader::new(bytes::Bytes::from(report.flows_parquet().unwrap())).unwrap();
        let file = reader.metadata().file_metadata();
        let about = file.key_value_metadata().unwrap().iter().find(|pair| pair.key == "weir").unwrap();
        let about = about.value.as_deref().unwrap();
        assert!(
            about.contains("flows of `x`") && about.contains("seed 7") && about.contains("_ns: nanoseconds")
        );
        let column = |name: &str| {
            let column = file.schema_descr_ptr().columns().iter().find(|c| c.name() == name).unwrap().clone();
            (column.physical_type(), column.self_type().get_basic_info().repetition())
        };
        assert_eq!(column("fct_ns"), (Type::INT64, Repetition::OPTIONAL));
        assert_eq!(column("packets"), (Type::INT64, Repetition::REQUIRED));
        assert_eq!(column("from"), (Type::BYTE_ARRAY, Repetition::REQUIRED));
    }
}
